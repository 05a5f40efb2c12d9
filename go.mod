module github.com/nvmeof-go/nvmeof

go 1.26
