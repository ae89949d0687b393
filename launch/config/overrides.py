"""Settings given on the command line and in files, and the configuration that they make together."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...actors.self_play.config import DECISIONS, RESIDENCY, ActorConfig
from ...env.errors import UserError
from .config import TrainConfig, network_sizes
from .defaults import defaults_of
from .strict import DEFAULTS, build
from .workload_groups import expand_groups


class Overrides:
    """Settings collected from several places, each with its source. Of two values for one setting the later one wins.

    Attributes:
      left_out: after `resolve`, the programs that a group with a share leaves out, by group (`expand_groups`).
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._sources: dict[str, str] = {}
        self.left_out: dict[str, list[str]] = {}

    def add(self, values: Mapping[str, Any], source: str) -> None:
        """Adds nested settings that come from `source`."""
        _merge(self._values, values)
        self._sources.update(dict.fromkeys(_leaves(values), source))

    def add_file(self, path: str | Path) -> None:
        """Adds the settings of a TOML or JSON file. Raises UserError if it cannot be read."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', error)}); check the path") from error
        try:
            values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
            kind = "JSON" if path.suffix == ".json" else "TOML (a name ending in .json would make it JSON)"
            raise UserError(f"{path}: is no {kind}: {error}") from error
        if not isinstance(values, dict):
            raise UserError(f"{path}: is no JSON object; write the settings as {{...}}")
        self.add(values, str(path))

    def add_assignment(self, text: str) -> None:
        """Adds one `section.key=value`; values as in TOML, bare words as texts, `none` for no value."""
        name, equals, value_text = text.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise UserError(f"--set {text}: is no assignment; write --set section.key=value")
        value: Any
        if value_text.strip().lower() in ("none", "null"):
            value = None
        else:
            try:
                value = tomllib.loads(f"value = {value_text}")["value"]
            except tomllib.TOMLDecodeError:
                value = value_text.strip()
        for key in reversed(keys):
            value = {key: value}
        self.add(value, f"--set {text}")

    def has(self, name: str) -> bool:
        """Returns whether a setting was given."""
        return name in self._sources

    def source(self, name: str) -> str:
        """Returns the source of a setting, or of a whole `section.`."""
        found = [
            source
            for setting, source in self._sources.items()
            if setting == name.rstrip(".") or setting.startswith(name if name.endswith(".") or not name else f"{name}.")
        ]
        return ", ".join(dict.fromkeys(found)) or DEFAULTS

    def resolve(self, base: TrainConfig | None = None) -> TrainConfig:
        """Returns the configuration: these settings over those of `base`, or over the defaults.

        Raises:
          UserError: a setting is unknown, or its value cannot be used.
        """
        values: dict[str, Any] = {}
        _merge(values, defaults_of(self._game()) if base is None else base.to_json())
        _merge(values, self._values)
        self._fit_network(values)
        named = values.get("workloads")
        if isinstance(named, list | tuple) and all(isinstance(name, str) for name in named):
            values["workloads"], self.left_out = expand_groups(named)
        return build(TrainConfig, values, self.source)

    def _game(self) -> str:
        """Returns the game that these settings choose, or the default one."""
        actor = self._values.get("actor")
        game = actor.get("decisions") if isinstance(actor, Mapping) else None
        return game if game in DECISIONS else RESIDENCY

    def _fit_network(self, values: dict[str, Any]) -> None:
        """Sets the sizes of the network that the game determines, unless they are given."""
        network, given = values.get("network"), self._values.get("network", {})
        if not isinstance(network, dict) or not isinstance(given, Mapping):
            return  # refused later, by name
        try:
            actor = build(ActorConfig, values.get("actor"), self.source, "actor.")
        except UserError:
            return  # refused later, with the rest
        network.update({name: size for name, size in network_sizes(actor).items() if name not in given})

    def changed(self, base: TrainConfig, resolved: TrainConfig) -> dict[str, Any]:
        """Returns dotted names and new values of the settings in which `resolved` differs from `base`."""
        old, new = _leaves(base.to_json()), _leaves(resolved.to_json())
        return {name: value for name, value in new.items() if name not in old or old[name] != value}


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        elif isinstance(value, Mapping):
            into[name] = {}
            _merge(into[name], value)
        else:
            into[name] = value


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            leaves.update(_leaves(value, f"{prefix}{name}."))
        else:
            leaves[prefix + name] = value
    return leaves
