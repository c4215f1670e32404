"""The table of the worked example, made by code: customers of a telephone company, and who left within the year.

`python docs/churn.py churn.csv` writes it. What drives leaving is planted here, so that the rules found can be judged.
"""

import sys

import numpy as np
import pyarrow as pa
from pyarrow import csv


def churn(rows: int = 4000, seed: int = 7) -> pa.Table:
    draw = np.random.default_rng(seed)
    contract = draw.choice(["monthly", "one year", "two years"], rows, p=[0.55, 0.25, 0.20])
    payment = draw.choice(["card", "transfer", "cheque"], rows, p=[0.45, 0.35, 0.20])
    tenure = np.minimum(draw.exponential(26, rows).astype(int), 72)
    calls = draw.poisson(1.6, rows)
    fee = np.round(draw.uniform(18, 110, rows), 2)
    age = np.round(draw.normal(46, 15, rows).clip(18, 90))
    score = (
        -1.9
        + 2.4 * ((contract == "monthly") & (tenure <= 11))
        + 2.0 * ((calls >= 4) & (fee > 70))
        - 1.4 * (contract == "two years")
        + 0.8 * ((payment == "cheque") & (age > 60))
    )
    left = draw.random(rows) < 1 / (1 + np.exp(-score))
    unknown = draw.random(rows) < 0.07  # some customers never gave their age
    columns = {"tenure": tenure, "contract": contract, "payment": payment, "fee": fee, "calls": calls}
    return pa.table(columns | {"age": pa.array(age, mask=unknown), "left": np.where(left, "yes", "no")})


if __name__ == "__main__":
    csv.write_csv(churn(), sys.argv[1])
