"""`capplan config`: which defaults are in force, and which file each comes from."""

from capplan.cli.output import Format, FormatOption, JsonOption, OutputOption, emit, laid_out, resolve_format, to_json


def config(*, format_: FormatOption = None, json_: JsonOption = False, output: OutputOption = None) -> None:
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
    from capplan.verbs.statement.registry import CONFIGURABLE, SPEC_READERS

    chosen = Format(resolve_format(format_, json_flag=json_, output=output))
    settings = load_settings()
    rows = [
        (command, each.key, _shown(each.value), str(each.file))
        for command in (*CONFIGURABLE, *SPEC_READERS)
        for each in sorted(in_force(settings, command).values(), key=lambda each: each.key)
    ]
    if chosen is Format.JSON:
        from capplan.report.documents.gpus import SettingDocument, SettingsDocument

        keys = ("command", "option", "value", "file")
        found = tuple(SettingDocument(**dict(zip(keys, row, strict=True))) for row in rows)
        emit(to_json(SettingsDocument(settings=found)), output=output)
    elif rows or chosen is not Format.TABLE:
        columns = plain_columns("command", "option", "value", "file")
        emit(laid_out([Section([Table(columns, rows)])], chosen, output=output), output=output)
    else:
        nothing = f"no configuration file sets anything; capplan.toml may set {', '.join(all_settable())}."
        emit(laid_out([Section([Lines([nothing])])], chosen, output=output), output=output)


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
