# Runs a shell command. Parameters: command.
eval "$command"
