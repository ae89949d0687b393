"""The tables of a diagnosis for the terminal; docs/diagnosis.md defines each figure."""

from collections.abc import Iterator

from rich.table import Table

from ...actors.diagnosis.changes import Change, Changes, Tally
from ...actors.diagnosis.diagnose import Diagnosis, LineFigures
from ...actors.diagnosis.model import Depth
from ...env.viewer.style import MIB

# Numbers of changes shown: the most probable, and those with the largest gains and losses. The JSON file has all.
_SUREST, _LARGEST = 12, 4
_INSTRUCTION, _BUFFER = 20, 26


def heading(diagnosis: Diagnosis) -> str:
    """Returns the lines above the tables: program, agent, objective, unit and latencies."""
    scale = diagnosis.scale
    latencies = ", ".join(f"{line.trace.name} {line.trace.latency_s * 1e6:,.2f}" for line in diagnosis.lines)
    production = diagnosis.production_s
    beside = "" if production is None else f"; XLA's mapping itself {production * 1e6:,.2f}"
    return (
        f"{diagnosis.program.name}: {diagnosis.agent.path}, update {diagnosis.agent.step:,}, objective "
        f"{diagnosis.objective}. One unit of return is {scale.unit_s * 1e6:,.4g} us.\n"
        f"Lines of play (us): {latencies}{beside}. Best known without the agent: {diagnosis.best_known}."
    )


def tables(diagnosis: Diagnosis) -> Iterator[Table]:
    """Yields the tables of a diagnosis."""
    for line in diagnosis.lines:
        yield _model_table(line)
    yield _value_table(diagnosis)
    yield _policy_table(diagnosis)
    if diagnosis.changes is not None:
        yield _tally_table(diagnosis.changes, diagnosis.simulations)
        if diagnosis.changes.changes:
            yield from _changes_tables(diagnosis.changes.changes)


def _table(title: str, words: tuple[str, ...], figures: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in words:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, justify="right")
    return table


def _model_table(line: LineFigures) -> Table:
    model = line.model
    table = _table(
        f"Model against game, line {line.trace.name}: {model.starts} starts (units of return; the best constants err "
        f"by {model.constant_reward_error:.3f} reward, {model.constant_value_error:.3f} value)",
        ("steps",),
        (
            "reward error",
            "value error",
            "seen value error",
            "backup error",
            "policy KL",
            "same move",
            "illegal mass",
            "cosine",
            "projected",
        ),
    )
    if model.clipped_rewards:
        table.caption = f"{model.clipped_rewards} of the line's rewards lie beyond what the network can say."
        table.caption_justify = "left"
    for depth in model.depths:
        if depth.depth <= 3 or depth.depth % 5 == 0 or depth == model.depths[-1]:
            table.add_row(str(depth.depth), *_depth_figures(depth))
    return table


def _depth_figures(depth: Depth) -> list[str]:
    return [
        _figure(depth.reward_error),
        _figure(depth.value_error),
        _figure(depth.seen_value_error),
        _figure(depth.backup_error),
        _figure(depth.policy_kl),
        _percent(depth.same_move),
        _percent(depth.illegal_mass, 2),
        _figure(depth.cosine),
        _figure(depth.projected_cosine),
    ]


def _value_table(diagnosis: Diagnosis) -> Table:
    table = _table(
        f"Value against true discounted return (1 unit = {diagnosis.scale.unit_s * 1e6:,.4g} us; ideal: slope and "
        "correlation 1)",
        ("line",),
        (
            "decisions",
            "predicted",
            "true",
            "mean error",
            "abs error",
            "in us",
            "slope",
            "correlation",
            "explained",
            "clipped",
        ),
    )
    for line in diagnosis.lines:
        value = line.value
        table.add_row(
            line.trace.name,
            f"{value.decisions:,}",
            _figure(value.mean_predicted),
            _figure(value.mean_true),
            f"{value.mean_error:+.3f}",
            _figure(value.mean_abs_error),
            f"{value.mean_abs_error * diagnosis.scale.unit_s * 1e6:,.2f}",
            _figure(value.slope),
            _figure(value.correlation),
            _figure(value.explained),
            _percent(value.clipped),
        )
    return table


def _policy_table(diagnosis: Diagnosis) -> Table:
    table = _table(
        "Policy against legal moves (entropy in nats; sure: one move has over 0.9; agrees: the line made its choice)",
        ("line", "legal moves"),
        ("decisions", "entropy", "of uniform", "sure", "agrees", "line's move has", "illegal mass"),
    )
    for line in diagnosis.lines:
        policy = line.policy
        for choices in policy.by_legal:
            entropy = choices.entropy
            table.add_row(
                line.trace.name,
                str(choices.legal),
                f"{choices.decisions:,}",
                _figure(entropy),
                _percent(None if entropy is None else entropy / choices.uniform),
                _percent(choices.sure),
                _percent(choices.agreement),
                "",
                "",
            )
        figures = _percent(policy.sure), _percent(policy.agreement), f"{policy.probability:.3f}"
        table.add_row(
            line.trace.name,
            "all",
            f"{policy.decisions:,}",
            "",
            "",
            *figures,
            _percent(policy.illegal_mass, 2),
            end_section=True,
        )
    return table


def _tally_table(changes: Changes, simulations: int) -> Table:
    who = f"the search ({simulations} simulations)" if simulations else "the policy"
    table = _table(
        f"What {who} would change about the line that follows XLA, {changes.decisions:,} decisions, each change alone",
        ("moves",),
        ("tried", "help", "neutral", "hurt", "share that helps", "gains us", "losses us", "rank correlation"),
    )
    for name, tally in (("the agent's", changes.agent), ("random", changes.random)):
        table.add_row(name, *_tally_figures(tally))
    gain_us, helping_us = changes.line_us - changes.together_us, changes.line_us - changes.helping_together_us
    table.caption = (
        f"All of the agent's together gain {gain_us:+,.2f} us, those that help alone {helping_us:+,.2f} us "
        f"({100 * helping_us / changes.production_us:+.2f} % of production).\n"
        f"The line comes to {changes.line_us:,.2f} us, {100 * changes.line_us / changes.production_us:.2f} % of XLA's."
    )
    table.caption_justify = "left"
    return table


def _tally_figures(tally: Tally) -> list[str]:
    return [
        f"{tally.moves:,}",
        f"{tally.helps:,}",
        f"{tally.neutral:,}",
        f"{tally.hurts:,}",
        _percent(tally.helps_share),
        f"{tally.gain_us:,.2f}",
        f"{tally.loss_us:,.2f}",
        _figure(tally.rank_correlation),
    ]


def _changes_tables(changes: list[Change]) -> Iterator[Table]:
    surest = changes[:_SUREST]
    yield _changes_table(f"The surest {len(surest)} of {len(changes):,} changes (gain: what each alone saves)", surest)
    felt = sorted((change for change in changes if change.gain_us), key=lambda change: -change.gain_us)
    if felt:
        shown = felt if len(felt) <= 2 * _LARGEST else [*felt[:_LARGEST], *felt[-_LARGEST:]]
        yield _changes_table(f"The largest gains and losses of the {len(felt):,} changes that have an effect", shown)


def _changes_table(title: str, shown: list[Change]) -> Table:
    models = list(shown[0].model_gain_us)
    table = _table(
        title,
        ("at", "instruction", "buffer"),
        ("MiB", "XLA's", "agent's", "sure", "gain us", *(f"by {model}" for model in models if len(models) > 1)),
    )
    for change in shown:
        by_model = (_gain(change.model_gain_us[model]) for model in models if len(models) > 1)
        table.add_row(
            str(change.instruction),
            _short(change.instruction_name, _INSTRUCTION),
            _short(change.buffer_name, _BUFFER),
            f"{change.bytes / MIB:.2f}",
            change.line_does,
            change.agent_does,
            f"{change.agent_probability:.2f}",
            _gain(change.gain_us),
            *by_model,
        )
    return table


def _short(name: str, most: int) -> str:
    """Returns a name with its middle left out if it is longer than `most`: names differ at their ends."""
    head = (most - 1) // 2
    return name if len(name) <= most else f"{name[:head]}…{name[head + 1 - most :]}"


def _gain(gain_us: float) -> str:
    return f"{gain_us:+,.{3 if abs(gain_us) < 10.0 else 1}f}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f} %"
