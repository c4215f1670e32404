"""Selection paths of linear models: exact inverse scale space, linearised Bregman iterations, split versions."""
