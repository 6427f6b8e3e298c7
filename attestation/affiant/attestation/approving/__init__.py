"""What an approver signs: statements about one action, and proofs of who reads; and their key files."""
