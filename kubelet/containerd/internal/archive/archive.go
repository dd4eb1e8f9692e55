// Package archive reads which images are in an image archive: an OCI image layout or what docker save writes, in a tar that may be
// compressed by gzip. It reads indexes and manifests only, and checks nothing that the runtime will check at an import.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/distribution/reference"
)

// maxDocument is how large a file of an archive may be that is read for names: indexes and manifests, not layers.
const maxDocument = 4 << 20

// Image is an image in an archive.
type Image struct {
	Name string // normalised, with tag or digest; "": it has none
	ID   string // digest of its configuration, as the runtime reports it; "": not known
}

// document is what indexes, manifests and docker-save's manifest.json have in common, of what is needed here.
type document struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
	Platform    *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// saved is an image in a docker-save archive's manifest.json.
type saved struct {
	Config   string
	RepoTags []string
}

// Read lists the images in an archive, at least one. arch is the architecture whose image counts where there are several.
func Read(file, arch string) ([]Image, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	images, err := read(opened, arch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return images, nil
}

func read(file io.ReadSeeker, arch string) ([]Image, error) {
	documents, err := readDocuments(file)
	if err != nil {
		return nil, fmt.Errorf("not an image archive: %w", err)
	}
	var images []Image
	switch {
	case documents["index.json"] != nil:
		images, err = layoutImages(documents, arch)
	case documents["manifest.json"] != nil:
		images, err = savedImages(documents["manifest.json"])
	default:
		err = errors.New("not an image archive: it has neither index.json (OCI image layout) nor manifest.json (docker save)")
	}
	if err == nil && len(images) == 0 {
		err = errors.New("no images are in it")
	}
	return images, err
}

// readDocuments reads what is small in a tar, and skips over layers where the file can.
func readDocuments(file io.ReadSeeker) (map[string][]byte, error) {
	var in io.Reader = file
	head := make([]byte, 2)
	if _, err := io.ReadFull(file, head); err != nil {
		return nil, errors.New("the file is empty")
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if bytes.Equal(head, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			return nil, err
		}
		in = unpacked
	}
	documents := map[string][]byte{}
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg || header.Size > maxDocument {
			continue
		}
		first := make([]byte, 1)
		if n, _ := r.Read(first); n == 0 || first[0] != '{' && first[0] != '[' {
			continue
		}
		rest, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		documents[path.Clean(header.Name)] = append(first, rest...)
	}
}

// layoutImages follows an OCI image layout from index.json to the configurations.
func layoutImages(documents map[string][]byte, arch string) ([]Image, error) {
	var index document
	if err := json.Unmarshal(documents["index.json"], &index); err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	var images []Image
	for _, entry := range index.Manifests {
		image := Image{ID: configuration(documents, entry, arch, 0)}
		for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
			// A reference that is only a tag, as the specification wants it, names no image.
			if text := entry.Annotations[key]; image.Name == "" && strings.ContainsAny(text, ":/") {
				name, err := Normalise(text)
				if err != nil {
					return nil, err
				}
				image.Name = name
			}
		}
		images = append(images, image)
	}
	return images, nil
}

// configuration is the digest of the configuration of the image for arch that a descriptor leads to, through indexes.
func configuration(documents map[string][]byte, entry descriptor, arch string, depth int) string {
	algorithm, hash, _ := strings.Cut(entry.Digest, ":")
	var d document
	if depth > 3 || json.Unmarshal(documents["blobs/"+algorithm+"/"+hash], &d) != nil {
		return ""
	}
	if len(d.Manifests) == 0 {
		return d.Config.Digest
	}
	for _, inner := range d.Manifests {
		if inner.Platform == nil || inner.Platform.OS == "linux" && inner.Platform.Architecture == arch {
			return configuration(documents, inner, arch, depth+1)
		}
	}
	return ""
}

// savedImages reads the manifest.json of docker save.
func savedImages(manifest []byte) ([]Image, error) {
	var all []saved
	if err := json.Unmarshal(manifest, &all); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	var images []Image
	for _, s := range all {
		// The configuration is named after its hash: "<hash>.json", or "blobs/sha256/<hash>".
		id := ""
		if s.Config != "" {
			id = "sha256:" + strings.TrimSuffix(path.Base(s.Config), ".json")
		}
		for _, tag := range s.RepoTags {
			name, err := Normalise(tag)
			if err != nil {
				return nil, err
			}
			images = append(images, Image{Name: name, ID: id})
		}
		if len(s.RepoTags) == 0 {
			images = append(images, Image{ID: id})
		}
	}
	return images, nil
}

// Normalise gives an image's name as the runtime has it: with a registry, and a tag if there is no digest.
func Normalise(name string) (string, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", fmt.Errorf("image name %q: %w", name, err)
	}
	return named.String(), nil
}
