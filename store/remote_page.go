package store

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"vigil/internal/protobuf"
)

// borrowed reads a page whose keys and values lie in the answer as it came over the network: the caller returns that to gRPC's pool
// with the page's release. The generated decoder would copy each of them into memory of its own.
func (r *remote) borrowed(ctx context.Context, request *pb.RangeRequest) (*pb.RangeResponse, func(), error) {
	codec := &borrowing{CodecV2: encoding.GetCodecV2(proto.Name)}
	resp, err := r.kv.Range(ctx, request, append(r.opts[:len(r.opts):len(r.opts)], grpc.ForceCodecV2(codec))...)
	if err != nil {
		codec.release()
		return nil, nil, err
	}
	return resp, codec.release, nil
}

// borrowing is gRPC's codec for one call of Range. It keeps the answer's bytes until release.
type borrowing struct {
	encoding.CodecV2
	answers []mem.Buffer // one; more when the call was repeated
}

func (c *borrowing) Unmarshal(data mem.BufferSlice, v any) error {
	resp, ok := v.(*pb.RangeResponse)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	answer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	c.answers = append(c.answers, answer)
	return readRange(resp, answer.ReadOnlyData())
}

func (c *borrowing) release() {
	for _, a := range c.answers {
		a.Free()
	}
	c.answers = nil
}

// Field numbers of etcd's rpc.proto and kv.proto.
const (
	rangeHeader, rangeKvs, rangeMore, rangeCount = 1, 2, 3, 4
	headerRevision                               = 3

	kvKey, kvCreateRevision, kvModRevision, kvVersion, kvValue, kvLease = 1, 2, 3, 4, 5, 6
)

var errRange = errors.New("etcd's answer to a range request is malformed")

// readRange decodes a RangeResponse. Its keys and values are parts of b. Of the header it reads the revision.
func readRange(resp *pb.RangeResponse, b []byte) error {
	*resp = pb.RangeResponse{Header: &pb.ResponseHeader{}}
	n := 0
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return errRange
		}
		if f.Num == rangeKvs {
			n++
		}
		i = f.End
	}
	kvs := make([]mvccpb.KeyValue, n)
	resp.Kvs = make([]*mvccpb.KeyValue, 0, n)
	for i := 0; i < len(b); {
		f, _ := protobuf.Next(b, i)
		i = f.End
		switch {
		case f.Num == rangeHeader && f.Type == protobuf.Bytes:
			for at := f.Start; at < f.End; {
				part, ok := protobuf.Next(b[:f.End], at)
				if !ok {
					return errRange
				}
				if part.Num == headerRevision {
					resp.Header.Revision = int64(part.Value)
				}
				at = part.End
			}
		case f.Num == rangeKvs && f.Type == protobuf.Bytes:
			kv := &kvs[len(resp.Kvs)]
			if !readKeyValue(kv, b[f.Start:f.End]) {
				return errRange
			}
			resp.Kvs = append(resp.Kvs, kv)
		case f.Num == rangeMore:
			resp.More = f.Value != 0
		case f.Num == rangeCount:
			resp.Count = int64(f.Value)
		}
	}
	return nil
}

// readKeyValue decodes a KeyValue whose key and value are parts of b, and reports whether b is one.
func readKeyValue(kv *mvccpb.KeyValue, b []byte) bool {
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return false
		}
		i = f.End
		if f.Type != protobuf.Bytes && (f.Num == kvKey || f.Num == kvValue) {
			return false
		}
		switch f.Num {
		case kvKey:
			kv.Key = b[f.Start:f.End:f.End]
		case kvCreateRevision:
			kv.CreateRevision = int64(f.Value)
		case kvModRevision:
			kv.ModRevision = int64(f.Value)
		case kvVersion:
			kv.Version = int64(f.Value)
		case kvValue:
			kv.Value = b[f.Start:f.End:f.End]
		case kvLease:
			kv.Lease = int64(f.Value)
		}
	}
	return true
}
