"""Read prices by use: offers of GPUs by the second, and of interfaces by the token."""

from capplan.core.gpus.by_use import ServerlessOffers, TokenPrices
from capplan.specs.values import YamlRecordReader


class _ServerlessReader(YamlRecordReader):
    shipped = "serverless.yaml"
    what = "offers of GPUs by the second"
    version = 1


class _TokenPriceReader(YamlRecordReader):
    shipped = "api-prices.yaml"
    what = "prices by the token"
    version = 1


def load_serverless() -> ServerlessOffers:
    """Read the offers of GPUs that are charged by the second.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    return _ServerlessReader.load(ServerlessOffers)


def load_token_prices() -> TokenPrices:
    """Read the prices of interfaces that are paid by the token.

    Raises:
        SpecError: The file is missing, not strict YAML, of another schema, or holds unknown, missing or wrong values.
    """
    return _TokenPriceReader.load(TokenPrices)
