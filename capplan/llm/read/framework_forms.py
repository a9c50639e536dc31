"""Read the forms of frameworks' launch configurations."""

from capplan.llm.core.training.frameworks import FrameworkForms
from capplan.specs.values import RecordFile

FRAMEWORK_FORMS = RecordFile(kind=FrameworkForms, shipped="framework-forms.yaml", what="forms of frameworks' files")
