"""The three budgets of each engine as bars: cache, live demand, admission; and the one that binds."""

from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.derive.budgets import usage_of
from sidecar.model.budget import Binding, Budget
from sidecar.model.window import EngineWindow
from sidecar.page.bars import show_bar
from sidecar.page.shown import Shown
from sidecar.telling.figures import say_number
from sidecar.telling.markup import Markup, element, join
from sidecar.telling.plain import order_engine, plain_engine

MOST_ENGINES = 8
BINDING_WORDS = {
    Binding.CACHE: "the KV cache held requests back",
    Binding.ADMISSION: "admission (max_num_seqs) held requests back",
    Binding.BATCH_TOKENS: "the tokens of one step (max_num_batched_tokens) held requests back",
    Binding.NONE: "none of them held requests back in the last window",
    Binding.UNKNOWN: "not known: too little is measured",
}


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One budget: its name, how much of it is used (a share, None: not known), and that in words."""

    name: str
    share: float | None
    peak: float | None
    said: str
    binds: bool = False


def show_budgets(shown: Shown) -> Markup:
    """The budgets in the last window, engine by engine."""
    last = shown.report.last_window
    name = element("h2", "Budgets", id="budgets")
    names = [] if last is None else sorted(last.window.engines, key=order_engine)
    if last is None or not names:
        said = "Not known: vLLM's metrics showed no engine in the last window."
        return element("section", name, element("p", said), aria_labelledby="budgets")
    parts = []
    for engine in names[:MOST_ENGINES]:
        budget = last.budgets.get(engine, Budget())
        lines = list_lines(last.window.engines[engine], budget)
        heading = element("h3", f"Engine {plain_engine(engine)}") if len(names) > 1 else ""
        parts.append(
            join(
                (
                    heading,
                    element("p", f"What binds: {BINDING_WORDS[budget.binding]}."),
                    element("dl", join(map(show_line, lines)), class_="budgets"),
                )
            )
        )
    if len(names) > MOST_ENGINES:
        more = f"{len(names) - MOST_ENGINES} more engines are in /api/windows."
        parts.append(element("p", more))
    return element("section", name, *parts, aria_labelledby="budgets")


def show_line(line: BudgetLine) -> Markup:
    """One budget."""
    bind = join((" ", element("strong", "binds", class_="binds"))) if line.binds else Markup("")
    return join(
        (
            element("dt", line.name, bind),
            element(
                "dd",
                show_bar(line.share, f"{line.name}: {line.said}", mark=line.peak),
                element("p", line.said),
            ),
        )
    )


def list_lines(engine: EngineWindow, budget: Budget) -> Iterator[BudgetLine]:
    """The three budgets of one engine."""
    usage = usage_of(engine)
    yield BudgetLine(
        "KV cache",
        None if usage is None else usage.last,
        None if usage is None else usage.greatest,
        "how full it is was not read"
        if usage is None
        else f"{usage.last:.0%} in use at the window's end, {usage.greatest:.0%} at most (the mark)"
        + say_capacity(budget),
        budget.binding is Binding.CACHE,
    )
    capacity, demand, peak = budget.capacity, budget.demand, budget.demand_peak
    yield BudgetLine(
        "Live demand",
        demand / capacity if capacity and demand is not None else None,
        peak / capacity if capacity and peak is not None else None,
        say_demand(budget),
    )
    yield BudgetLine(
        "Admission",
        budget.admission_used,
        None,
        say_admission(budget),
        budget.binding in {Binding.ADMISSION, Binding.BATCH_TOKENS},
    )


def say_capacity(budget: Budget) -> str:
    """How much the cache holds."""
    return "" if budget.capacity is None else f"; it holds {say_number(budget.capacity)} tokens"


def say_demand(budget: Budget) -> str:
    """What running requests hold, and for how many of them there is room."""
    if budget.demand_peak is None:
        return "what running requests hold is not known: the size of the cache or their number is missing"
    said = f"running requests held up to {say_number(budget.demand_peak)} tokens"
    if budget.per_running is not None:
        said += f", {say_number(budget.per_running)} each"
    if budget.safe_concurrency is not None:
        said += (
            f"; the cache holds about {say_number(round(budget.safe_concurrency))} such requests"
        )
    return said


def say_admission(budget: Budget) -> str:
    """How much of what may run runs, and whether the cache could hold it."""
    if budget.admission_limit is None:
        return "max_num_seqs is not known: the log's start or the command line was not seen"
    running = "" if budget.running is None else f"up to {say_number(budget.running)} of "
    said = f"{running}{say_number(budget.admission_limit)} requests (max_num_seqs) ran"
    if budget.waiting:
        said += f", up to {say_number(budget.waiting)} waited"
    if budget.admitted_ratio is not None and budget.admitted_ratio > 1:
        said += f"; so many would need {budget.admitted_ratio:.2g} times the cache"
    return said
