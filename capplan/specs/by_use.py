"""Read prices by use: offers of GPUs by the second, and of interfaces by the token."""

from capplan.core.gpus.by_use import ServerlessOffers, TokenPrices
from capplan.specs.values import RecordFile

load_serverless = RecordFile(kind=ServerlessOffers, shipped="serverless.yaml", what="offers of GPUs by the second").load
load_token_prices = RecordFile(kind=TokenPrices, shipped="api-prices.yaml", what="prices by the token").load
