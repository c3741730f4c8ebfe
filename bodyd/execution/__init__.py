"""What runs for a model beside the desktop: commands in the shell's sandboxes, bounded, dead when told to."""
