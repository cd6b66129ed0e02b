"""Documentation site: its generated pages, its diagrams, its rules, and what MkDocs calls while it builds."""
