package main

import (
	"archive/tar"
	_ "crypto/sha256" // what digest computes with
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// annotationName is where containerd looks for the full name of an image in an index.
const annotationName = "io.containerd.image.name"

// image is one image to be made: name is its full name with tag, user UID:GID or empty.
type image struct {
	name, tag, entrypoint, arch, user string
	ports, env                        []string
}

// writeArchive makes the archive: oci-layout and index.json, then the blobs, each content once.
func writeArchive(path string, layer []byte, images []image) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".ociimage-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	a := &archive{w: tar.NewWriter(file), seen: map[digest.Digest]bool{}}
	if err := a.write(layer, images); err != nil {
		_ = file.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// archive is an OCI image layout being written as a tar.
type archive struct {
	w    *tar.Writer
	seen map[digest.Digest]bool
}

func (a *archive) write(layer []byte, images []image) error {
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	blobs := [][]byte{layer}
	layerDesc := describe(ocispec.MediaTypeImageLayer, layer)
	for _, img := range images {
		config, err := json.Marshal(img.config(layerDesc.Digest))
		if err != nil {
			return err
		}
		manifest, err := json.Marshal(ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
			Config: describe(ocispec.MediaTypeImageConfig, config), Layers: []ocispec.Descriptor{layerDesc},
		})
		if err != nil {
			return err
		}
		blobs = append(blobs, config, manifest)
		desc := describe(ocispec.MediaTypeImageManifest, manifest)
		desc.Platform = &ocispec.Platform{OS: "linux", Architecture: img.arch}
		desc.Annotations = map[string]string{annotationName: img.name, ocispec.AnnotationRefName: img.tag}
		index.Manifests = append(index.Manifests, desc)
	}
	layout, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := a.file(ocispec.ImageLayoutFile, layout); err != nil {
		return err
	}
	if err := a.file(ocispec.ImageIndexFile, encoded); err != nil {
		return err
	}
	for _, blob := range blobs {
		if err := a.blob(blob); err != nil {
			return err
		}
	}
	return a.w.Close()
}

// config is what a runtime needs to know of the image.
func (img image) config(diffID digest.Digest) ocispec.Image {
	c := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: img.arch},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}},
		Config: ocispec.ImageConfig{
			User: img.user, Entrypoint: []string{img.entrypoint}, WorkingDir: "/",
			Env: append([]string{"PATH=/bin:/"}, img.env...),
			Labels: map[string]string{
				ocispec.AnnotationTitle:   img.name,
				ocispec.AnnotationVersion: img.tag,
			},
		},
	}
	for _, port := range img.ports {
		if c.Config.ExposedPorts == nil {
			c.Config.ExposedPorts = map[string]struct{}{}
		}
		c.Config.ExposedPorts[port+"/tcp"] = struct{}{}
	}
	return c
}

func describe(mediaType string, content []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
}

func (a *archive) blob(content []byte) error {
	d := digest.FromBytes(content)
	if a.seen[d] {
		return nil
	}
	a.seen[d] = true
	return a.file("blobs/"+d.Algorithm().String()+"/"+d.Encoded(), content)
}

func (a *archive) file(name string, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := a.w.WriteHeader(header); err != nil {
		return err
	}
	_, err := a.w.Write(content)
	return err
}
