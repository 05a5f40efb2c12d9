package rbd

import (
	"errors"
	"fmt"
	"strings"
)

// A Name identifies an image or a snapshot of it.
type Name struct {
	Pool      string
	Namespace string // of the pool; usually empty
	Image     string
	Snapshot  string // empty: the image itself
}

// ParseName parses POOL/IMAGE or POOL/NAMESPACE/IMAGE, either of them with an optional @SNAPSHOT.
func ParseName(s string) (Name, error) {
	rest, snapshot, hasSnapshot := strings.Cut(s, "@")
	parts := strings.Split(rest, "/")
	n := Name{Pool: parts[0], Image: parts[len(parts)-1], Snapshot: snapshot}
	if len(parts) == 3 {
		n.Namespace = parts[1]
	}
	switch {
	case len(parts) < 2 || len(parts) > 3:
		return Name{}, fmt.Errorf("image %q: write POOL/IMAGE or POOL/NAMESPACE/IMAGE", s)
	case n.Pool == "" || n.Image == "" || len(parts) == 3 && n.Namespace == "":
		return Name{}, fmt.Errorf("image %q: a part of the name is empty", s)
	case hasSnapshot && (snapshot == "" || strings.ContainsAny(snapshot, "@/")):
		return Name{}, fmt.Errorf("image %q: the snapshot's name is empty, or has @ or / in it", s)
	case strings.ContainsRune(s, 0):
		return Name{}, errors.New("the image's name contains a zero byte")
	}
	return n, nil
}

func (n Name) String() string {
	s := n.Pool + "/"
	if n.Namespace != "" {
		s += n.Namespace + "/"
	}
	s += n.Image
	if n.Snapshot != "" {
		s += "@" + n.Snapshot
	}
	return s
}

// In returns the pool and the namespace in the format of [Store.Pools].
func (n *Name) In() string {
	if n.Namespace == "" {
		return n.Pool
	}
	return n.Pool + "/" + n.Namespace
}
