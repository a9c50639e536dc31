"""Count how the lengths of real chats vary, for the longest request that launch commands admit.

Run as `python benchmarks/chat_lengths.py AzureLLMInferenceTrace_conv.csv`, a file of
github.com/Azure/AzurePublicDataset. It prints quantiles of prompts, answers and both together over their means.
"""

import csv
import sys
from pathlib import Path

import numpy as np

QUANTILES = (0.5, 0.9, 0.99, 0.999)


def main() -> None:
    with Path(sys.argv[1]).open(encoding="utf-8", newline="") as file:
        rows = [(float(row["ContextTokens"]), float(row["GeneratedTokens"])) for row in csv.DictReader(file)]
    prompts, answers = np.array(rows).T
    for name, tokens in (("prompt", prompts), ("answer", answers), ("both", prompts + answers)):
        mean = tokens.mean()
        shares = ", ".join(f"p{100 * share:g} {np.quantile(tokens, share) / mean:.2f}" for share in QUANTILES)
        print(f"{name}: {len(tokens)} requests, mean {mean:.0f}, cv {tokens.std() / mean:.2f}; over the mean: {shares}")


if __name__ == "__main__":
    main()
