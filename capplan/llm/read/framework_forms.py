"""Read the forms of frameworks' launch configurations, and of engines' commands."""

from capplan.llm.core.fleet.launch import EngineForms
from capplan.llm.core.training.frameworks import FrameworkForms
from capplan.specs.values import RecordFile

FRAMEWORK_FORMS = RecordFile(kind=FrameworkForms, shipped="framework-forms.yaml", what="forms of frameworks' files")
ENGINE_FORMS = RecordFile(kind=EngineForms, shipped="engine-forms.yaml", what="forms of engines' commands")
