package cri

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

// Exec implements kubelet.Runtime. Timeouts are whole seconds, rounded up. Runtimes keep up to 16 MiB of each output.
func (r *Runtime) Exec(ctx context.Context, id string, command []string, timeout time.Duration, limit int) (output []byte, exitCode int, err error) {
	request := &runtimeapi.ExecSyncRequest{ContainerId: bare(id), Cmd: command, Timeout: int64(math.Ceil(timeout.Seconds()))}
	answer, err := r.client.ExecSync(ctx, request, grpc.ForceCodecV2(execCodec{limit}))
	if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
		return nil, 0, fmt.Errorf("%w: %q", kubelet.ErrExecTimeout, command)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("exec in container %s: %w", id, err)
	}
	output = append(answer.Stdout, answer.Stderr...)
	if limit > 0 {
		output = output[:min(len(output), limit)]
	}
	return output, int(answer.ExitCode), nil
}

// execCodec decodes answers of ExecSync and keeps the first limit bytes of each output, 0: all. The usual one makes three copies of 32 MiB, to show
// 10 KiB of them.
type execCodec struct{ limit int }

// Name implements encoding.CodecV2: on the wire it is the usual one.
func (execCodec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (execCodec) Marshal(v any) (mem.BufferSlice, error) {
	return encoding.GetCodecV2("proto").Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c execCodec) Unmarshal(data mem.BufferSlice, v any) error {
	answer, ok := v.(*runtimeapi.ExecSyncResponse)
	if !ok || c.limit == 0 {
		return encoding.GetCodecV2("proto").Unmarshal(data, v)
	}
	reader := data.Reader()
	defer reader.Close()
	for {
		tag, err := binary.ReadUvarint(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.field(reader, tag, answer)
		}
		if err != nil {
			return fmt.Errorf("decode the answer of ExecSync: %w", err)
		}
	}
}

// field reads a field: 1 is what was printed to stdout, 2 to stderr, 3 is the exit code.
func (c execCodec) field(from *mem.Reader, tag uint64, answer *runtimeapi.ExecSyncResponse) error {
	number, kind := protowire.DecodeTag(tag)
	var skip uint64
	switch kind {
	case protowire.VarintType:
		value, err := binary.ReadUvarint(from)
		if number == 3 {
			answer.ExitCode = int32(value)
		}
		return eof(err)
	case protowire.Fixed32Type:
		skip = 4
	case protowire.Fixed64Type:
		skip = 8
	case protowire.BytesType:
		length, err := binary.ReadUvarint(from)
		if err != nil {
			return eof(err)
		}
		skip = length
		if number != 1 && number != 2 {
			break
		}
		kept := make([]byte, min(length, uint64(c.limit)))
		if _, err := io.ReadFull(from, kept); err != nil {
			return eof(err)
		}
		if number == 1 {
			answer.Stdout = kept
		} else {
			answer.Stderr = kept
		}
		skip -= uint64(len(kept))
	default:
		return fmt.Errorf("field %d is of unknown kind %d", number, kind)
	}
	if skip > uint64(from.Remaining()) {
		return io.ErrUnexpectedEOF
	}
	_, err := io.CopyN(io.Discard, from, int64(skip))
	return err
}

// eof says that an end came too early.
func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
