//go:build rbd && cgo && linux

package rbd

import "github.com/nvmeof-go/nvmeof/internal/librados"

// A libraryClient implements connection.
type libraryClient struct{ *librados.Client }

func dialClient(cfg ClientConfig) (connection, error) {
	c, err := connect(cfg.Conf, cfg.ID)
	if err != nil {
		return nil, err
	}
	return libraryClient{c}, nil
}

func (c libraryClient) visit(pool, namespace string) error { return c.Visit(pool, namespace) }

func (c libraryClient) blocks() (map[string]string, error) {
	all, err := c.Blocks()
	if err != nil {
		return nil, err
	}
	blocks := make(map[string]string)
	for _, b := range all {
		blocks[b.Address] = b.Until
	}
	return blocks, nil
}
