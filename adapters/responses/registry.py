"""The tools of one request: what the model calls them, whose they are, and what stands for them upstream.

Pure. A tool is the client's unless the deployment configured a handler for it, and a request can
lower that, never raise it. Only names that were lowered in *this* request are restored, so that a
model which invents a call of a tool that nobody declared runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bodyd.errors import InvalidRequest, UnsupportedTool

from . import schemas
from .wire import COMPUTERS, HOSTED, LEFT_OUT, LOWERED, family

Json = dict[str, Any]


class Owner(StrEnum):
    """Who carries a call out."""

    CLIENT = "client"
    GATEWAY = "gateway"
    UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class Handlers:
    """What this deployment executes itself."""

    computer: bool = False
    shell: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One declared tool.

    Attributes:
        kind: Its public type without a date; computers are all `computer`.
        public: The declaration as it came.
        name: What the model calls it upstream.
        upstream: The declaration that is sent, or None where the tool is left out.
        lowered: A function stands for it upstream.
        namespace: The namespace that its function came in.
    """

    kind: str
    public: Json
    owner: Owner
    name: str
    upstream: Json | None
    lowered: bool
    namespace: str | None = None

    @property
    def preview(self) -> bool:
        return bool(self.public["type"] == "computer_use_preview")


@dataclass(frozen=True, slots=True)
class Registry:
    """What `build` found; `left_out` names the tools that the server lacks and the model does without."""

    entries: tuple[Entry, ...] = ()
    left_out: tuple[str, ...] = ()
    _by_name: Mapping[str, Entry] = field(default_factory=dict)

    def called(self, name: str) -> Entry | None:
        """The entry whose stand-in is called *name* upstream."""
        return self._by_name.get(name)

    def of_kind(self, kind: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.kind == kind), None)

    def owner(self, item_type: str) -> Owner:
        """Whose a call item of *item_type* is; an undeclared one is the client's, and never run here."""
        kind = {"computer_call": "computer", "shell_call": "shell"}.get(item_type)
        entry = self.of_kind(kind) if kind else None
        return entry.owner if entry is not None else Owner.CLIENT

    def name_of(self, public: str, namespace: str | None = None) -> str:
        """What a client's function of that name is called upstream."""
        for entry in self.entries:
            named = entry.kind in ("function", "custom") and entry.public.get("name") == public
            if named and entry.namespace == namespace:
                return entry.name
        return f"{namespace}__{public}" if namespace else public

    @property
    def upstream_tools(self) -> list[Json]:
        """What is declared upstream, each once."""
        sent: list[Json] = []
        for entry in self.entries:
            if entry.upstream is not None and entry.upstream not in sent:
                sent.append(entry.upstream)
        return sent


def build(
    tools: Iterable[Json], *, native: frozenset[str], handlers: Handlers, passthrough: bool = False
) -> Registry:
    """The registry of one request's tools.

    Args:
        native: Tool types that the model's server has itself.
        handlers: What the gateway executes, already lowered by the request's header.
    Raises:
        InvalidRequest: a built-in tool, or a name, is declared twice.
        UnsupportedTool: a hosted tool that the server lacks.
    """
    made = _Builder(native, handlers, passthrough)
    declared = list(tools)
    made.reserve(declared)
    for index, tool in enumerate(declared):
        made.add(tool, f"tools[{index}]")
    return Registry(tuple(made.entries), tuple(made.left_out), {entry.name: entry for entry in made.entries})


class _Builder:
    def __init__(self, native: frozenset[str], handlers: Handlers, passthrough: bool) -> None:
        self.entries: list[Entry] = []
        self.left_out: list[str] = []
        self._native = native
        self._handlers = handlers
        self._passthrough = passthrough
        self._taken: set[str] = set()

    def reserve(self, tools: list[Json]) -> None:
        """Keep the stand-ins' names free: a client's function of the same name is renamed, not they."""
        for tool in tools:
            kind = _kind(tool)
            if kind in schemas.NAMES and not self._has(tool):
                if kind in self._taken:
                    raise InvalidRequest(f"the tool {tool['type']} is declared twice", param="tools")
                self._taken.add(kind)

    def add(self, tool: Json, param: str, namespace: str | None = None) -> None:
        kind = _kind(tool)
        if kind == "namespace":
            self._add_namespace(tool, param)
        elif kind in ("function", "custom"):
            self._add_named(tool, kind, param, namespace)
        elif self._has(tool):
            self.entries.append(Entry(kind, tool, self._owner(kind, tool), kind, tool, lowered=False))
        elif family(tool["type"]) in LOWERED:
            stand_in = schemas.function(kind, tool)
            self.entries.append(Entry(kind, tool, self._owner(kind, tool), kind, stand_in, lowered=True))
        elif kind in LEFT_OUT:
            self.left_out.append(tool["type"])
            self.entries.append(Entry(kind, tool, Owner.UPSTREAM, kind, None, lowered=False))
        elif kind in HOSTED or not self._passthrough:
            raise UnsupportedTool(
                f"{param}: the model's server has no {tool['type']}; use a function tool", param=param
            )
        else:
            self.entries.append(Entry(kind, tool, Owner.UPSTREAM, kind, tool, lowered=False))

    def _add_namespace(self, tool: Json, param: str) -> None:
        if self._has(tool):
            self.entries.append(Entry("namespace", tool, Owner.CLIENT, tool["name"], tool, lowered=False))
            return
        for index, inner in enumerate(tool.get("tools") or ()):
            if inner["type"] not in ("function", "custom"):
                raise UnsupportedTool("a namespace has functions and custom tools alone", param=param)
            self.add(inner, f"{param}.tools[{index}]", tool["name"])

    def _add_named(self, tool: Json, kind: str, param: str, namespace: str | None) -> None:
        public = tool["name"]
        if any(e.public.get("name") == public and e.namespace == namespace for e in self.entries):
            raise InvalidRequest(f"{param}: the name {public!r:.80} is declared twice", param=f"{param}.name")
        name = self._free(f"{namespace}__{public}" if namespace else public)
        native = kind == "function" or self._has(tool)
        sent = {**tool, "name": name} if native else schemas.custom(tool, name)
        self.entries.append(Entry(kind, tool, Owner.CLIENT, name, sent, not native, namespace))

    def _free(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def _has(self, tool: Json) -> bool:
        return tool["type"] in self._native or family(tool["type"]) in self._native

    def _owner(self, kind: str, tool: Json) -> Owner:
        if kind == "computer":
            return Owner.GATEWAY if self._handlers.computer else Owner.CLIENT
        if kind == "shell":
            runnable = self._handlers.shell and _may_run_here(tool)
            return Owner.GATEWAY if runnable else Owner.CLIENT
        return Owner.UPSTREAM if kind in HOSTED else Owner.CLIENT


def _kind(tool: Json) -> str:
    kind = family(tool["type"])
    return "computer" if kind in COMPUTERS else kind


def _may_run_here(tool: Json) -> bool:
    """A plain local environment, called directly: anything else is kept and never run."""
    environment = tool.get("environment")
    callers = tool.get("allowed_callers")
    local = environment is None or (environment.get("type") == "local" and not environment.get("skills"))
    return local and (callers is None or (isinstance(callers, list) and "direct" in callers))
