"""The supervisor's client of the gateway: appraisal, admission, records, approvals."""
