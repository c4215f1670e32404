"""Rule ensembles: the estimators, the set of rules they return, and the independent recheck of their certificate."""
