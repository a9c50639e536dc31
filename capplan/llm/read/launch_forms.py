"""Read the forms of the files that platforms start a deployment from."""

from capplan.llm.core.fleet.launch_files import LaunchForms
from capplan.specs.values import RecordFile

LAUNCH_FORMS = RecordFile(kind=LaunchForms, shipped="launch-forms.yaml", what="forms of launch files")
