// Package hostidentity has the names and keys of this host: its NQN and host identifier, from
// the command line, from /etc/nvme or kept for this user ([Of]), its secrets for DH-HMAC-CHAP
// ([ParseSecret]), and the commands of nvme-cli that make, show and check these.
package hostidentity
