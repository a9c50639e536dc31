"""`llm evidence update`: bring measured runs of served models that are published, or a team's own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from capplan.errors import UsageError
from capplan.files import keep_whole
from capplan.verbs.llm.fields import DeploymentFields
from capplan.verbs.statement.contract import Context, Effort, Outcome, Verb
from capplan.verbs.statement.fields import Name
from capplan.verbs.statement.options import HERE, Option, Topic

if TYPE_CHECKING:
    from capplan.llm.core.serving.cases import MeasuredRun
    from capplan.llm.read.evidence import EvidenceTable


@dataclass(frozen=True, kw_only=True)
class EvidenceQuestion(DeploymentFields):
    """Which measured runs are brought; a deployment names the runs of files that do not name their own."""

    results: Annotated[
        Path | None,
        Option(
            help="A dump of InferenceX (.zip, .tar.xz, its folder), or a file or folder of results of vLLM, SGLang, "
            "guidellm, genai-perf or llama-bench; else the newest dump is fetched.",
            metavar="[RESULTS]", is_argument=True, doors=HERE,
        ),
    ] = None  # fmt: skip
    model: Annotated[
        Name | None, Option(help="Model of results that do not name it.", topic=Topic.MODEL, metavar="MODEL")
    ] = None
    gpu: Annotated[
        Name | None, Option(help="GPU of results that do not name it.", topic=Topic.GPUS, completes="gpus")
    ] = None
    check: Annotated[bool, Option(help="Say what would be kept, and write nothing.", doors=HERE)] = False

    def named(self, run: "MeasuredRun") -> "MeasuredRun":
        """Return a run with the names of this deployment where its file gives none."""
        if run.model:
            return run
        if not self.model or not self.gpu:
            raise UsageError(f"{run.file} does not name its model and GPU; name them with ⟨model⟩ and ⟨gpu⟩.")
        return replace(
            run, model=self.model, gpu=self.gpu, engine=self.engine_for(self.model).value, sharding=self.sharding(),
            version=self.engine_version or "", weights=self.weights or "", kv=self.kv or "",
        )  # fmt: skip


def answer_evidence(question: EvidenceQuestion, context: Context) -> "EvidenceTable":
    """Bring evidence, and keep it in the data folder."""
    from capplan.app.evidence_update import fetch_evidence
    from capplan.llm.read.evidence import evidence_folder, is_dump, load_evidence_source, read_dump, read_own_results
    from capplan.llm.read.serving_rows import rows_text

    source, results = load_evidence_source(), question.results
    if results is None:
        found = fetch_evidence(source, feedback=context.feedback)
    else:
        found = read_dump(results, source) if is_dump(results) else read_own_results(results, question.named)
    if not question.check:
        kept = source.id if results is None or is_dump(results) else found.name
        keep_whole(evidence_folder() / f"{kept}.csv", rows_text(found.rows).encode())
    return found


def _text(found: "EvidenceTable", question: EvidenceQuestion) -> str:
    drafted = sum(bool(row["speculation"]) for row in found.rows)
    told = f", {drafted:,} of them with drafted tokens" if drafted else ""
    return f"{found.name}: {len(found.rows):,} runs{told}{'; nothing is written' if question.check else ''}\n"


def _outcome(found: "EvidenceTable") -> Outcome:
    return Outcome(warnings=tuple(f"left out {count:,}: {reason}" for reason, count in found.left_out.most_common()))


LLM_EVIDENCE_UPDATE = Verb(
    path="llm evidence update",
    question=EvidenceQuestion,
    summary="Bring measured runs of served models: InferenceX's weekly database, or your own results.\n\n"
    "They are kept in your data folder, where `llm validate --evidence` and `llm fit --evidence` find them. Where a "
    "source fails, what it gave before is kept.",
    examples=(
        "capplan llm evidence update && capplan llm validate --evidence",
        "capplan llm evidence update results/ --model qwen3-8b --gpu l40s --engine vllm --engine-version 0.19",
    ),
    answer=answer_evidence,
    text=_text,
    outcome=_outcome,
    returns="capplan.llm.read.evidence:EvidenceTable",
    printed_only=True,
    is_local=True,
    effort=Effort.SHORT,
)
