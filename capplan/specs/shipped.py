"""Read shipped tables that have no rules of their own: prices by use, and the forms of files that platforms read."""

from capplan.core.gpus.by_use import ServerlessOffers, TokenPrices
from capplan.core.launch_files import LaunchForms
from capplan.specs.values import RecordFile

load_serverless = RecordFile(kind=ServerlessOffers, shipped="serverless.yaml", what="offers of GPUs by the second").load
load_token_prices = RecordFile(kind=TokenPrices, shipped="api-prices.yaml", what="prices by the token").load
LAUNCH_FORMS = RecordFile(kind=LaunchForms, shipped="launch-forms.yaml", what="forms of launch files")
