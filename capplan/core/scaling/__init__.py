"""How many replicas an autoscaler asks for, step by step, by the documented rules of several."""
