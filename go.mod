module github.com/nvmeof-go/nvmeof

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	go.uber.org/zap v1.28.0
	golang.org/x/sys v0.49.0
)

require go.uber.org/multierr v1.10.0 // indirect
