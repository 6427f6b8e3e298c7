"""Audits: does every request have a receipt, and which receipts rest on broken evidence?"""
