"""Terminal input and output of commands.

- `output`: checked standard output, lines and tables of commands, colors.
- `interrupt`: Ctrl-C of commands that must finish their work.
- `progress`, `table`: the progress line and tables; rich draws both on a terminal.
- `message_format`, `escapes`: text of records, and of bytes that a terminal must not get.
"""
