"""`capplan config`: which defaults are in force, and which file each comes from."""

from capplan.cli.groups import with_groups
from capplan.cli.options import AnswerOptions
from capplan.cli.output import Format, laid_out, to_json


@with_groups
def config(*, answer: AnswerOptions) -> None:
    """Show the defaults that configuration files set, and the file of each.

    Read are, the later the stronger: capplan.toml in the user's configuration folder, [tool.capplan] of the nearest
    pyproject.toml, and the nearest capplan.toml. CAPPLAN_CONFIG names one file to read instead, or none if it is empty.
    Options on the command line win over all of them.

    Examples:

      capplan config

      capplan config --json
    """
    from capplan.cli.settings import all_settable, in_force, load_settings
    from capplan.report.sections import Lines, Section, Table, plain_columns
    from capplan.verbs.registry import CONFIGURABLE

    chosen = answer.format()
    settings = load_settings()
    rows = [
        (command, each.key, _shown(each.value), str(each.file))
        for command in CONFIGURABLE
        for each in sorted(in_force(settings, command).values(), key=lambda each: each.key)
    ]
    if chosen is Format.JSON:
        from capplan.report.documents.local_state import SettingDocument, SettingsDocument

        keys = ("command", "option", "value", "file")
        found = tuple(SettingDocument(**dict(zip(keys, row, strict=True))) for row in rows)
        answer.emit(to_json(SettingsDocument(settings=found)))
    elif rows or chosen is not Format.TABLE:
        columns = plain_columns("command", "option", "value", "file")
        answer.emit(laid_out([Section([Table(columns, rows)])], chosen, output=answer.output))
    else:
        nothing = f"no configuration file sets anything; capplan.toml may set {', '.join(all_settable())}."
        answer.emit(laid_out([Section([Lines([nothing])])], chosen, output=answer.output))


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
