// Command image makes container images of the static program, without a daemon: an archive for
// podman load and docker load for each architecture, and one OCI layout of all of them to push. It
// is a module of its own, so that its dependencies are not those of the program. The script build
// in this directory runs it.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user ID of the program, which normally belongs to no user of a machine.
const user = 65532

// A release describes the images in their labels.
type release struct {
	version, revision string
	at                time.Time // time stamp of all files, so that the same source gives the same image
}

func main() {
	log.SetFlags(0)
	out := flag.String("o", "", "folder of the images")
	version := flag.String("version", "", "version, which is the tag too")
	revision := flag.String("revision", "", "commit")
	at := flag.Int64("time", 0, "seconds since 1970")
	flag.Parse()
	r := release{*version, *revision, time.Unix(*at, 0).UTC()}
	if err := r.make(*out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// make writes the images of programs, given as ARCH=PATH.
func (r release) make(out string, programs []string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		arch, path, _ := strings.Cut(p, "=")
		image, err := r.image(arch, path)
		if err != nil {
			return err
		}
		tag, err := name.NewTag("nvmeof:" + r.version)
		if err != nil {
			return err
		}
		if err := tarball.WriteToFile(filepath.Join(out, fmt.Sprintf("nvmeof_%s_%s.tar", r.version, arch)), tag, image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	_, err := layout.Write(filepath.Join(out, "nvmeof_"+r.version), index)
	return err
}

// image returns an image with one layer. By default it starts a target with
// /etc/nvmeof/target.yaml.
func (r release) image(arch, program string) (v1.Image, error) {
	content, err := r.files(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.at}, CreatedBy: "deploy/image"}})
	if err != nil {
		return nil, err
	}
	config, err := base.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: r.at}
	config.Config = v1.Config{
		Entrypoint: []string{"/nvmeof"}, Cmd: []string{"target", "--config", "/etc/nvmeof/target.yaml"},
		User:         fmt.Sprintf("%d:%d", user, user),
		Env:          []string{"PATH=/", "NVMEOF_SOCKET=/run/nvmeof/target.sock", "XDG_STATE_HOME=/var/lib"},
		ExposedPorts: map[string]struct{}{"4791/udp": {}}, StopSignal: "SIGTERM",
		// Owned by the user, and writable if the root file system is read-only.
		Volumes: map[string]struct{}{"/run/nvmeof": {}, "/var/lib/nvmeof": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "nvmeof",
			"org.opencontainers.image.description": "NVMe over Fabrics target and host over RDMA",
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.revision,
			"org.opencontainers.image.source":      "https://github.com/nvmeof-go/nvmeof",
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(base, config)
}

// files returns an archive of the program and the directories that it writes to.
func (r release) files(program string) ([]byte, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, text []byte) {
		h.ModTime, h.Format, h.Size = r.at, tar.FormatUSTAR, int64(len(text))
		if err == nil {
			err = w.WriteHeader(&h)
		}
		if err == nil {
			_, err = w.Write(text)
		}
	}
	for _, dir := range []string{"etc/", "run/", "srv/", "var/", "var/lib/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	for _, dir := range []string{"etc/nvmeof/", "run/nvmeof/", "srv/nvmeof/", "var/lib/nvmeof/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o700, Uid: user, Gid: user}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "nvmeof", Mode: 0o755}, text)
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}
