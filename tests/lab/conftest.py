from tests.lab.fixtures import lab_environment, lab_info, lab_model

__all__ = ["lab_environment", "lab_info", "lab_model"]
