"""Read the forms of the files that platforms start planned work from."""

from capplan.core.launch_files import LaunchForms
from capplan.specs.values import RecordFile

LAUNCH_FORMS = RecordFile(kind=LaunchForms, shipped="launch-forms.yaml", what="forms of launch files")
