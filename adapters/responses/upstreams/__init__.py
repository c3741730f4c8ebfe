"""Model servers behind UpstreamPort: Responses, Chat Completions, and those found by name."""
