package store

import (
	"math"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// rangeAnswers are what etcd may answer to a Range.
var rangeAnswers = []*pb.RangeResponse{
	{},
	{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: math.MaxUint64, Revision: math.MaxInt64, RaftTerm: 2}},
	{Header: &pb.ResponseHeader{Revision: 300}, More: true, Count: 70000, Kvs: []*mvccpb.KeyValue{
		{Key: []byte("/a"), Value: []byte(strings.Repeat("v", 300)), CreateRevision: 7, ModRevision: 300, Version: 3, Lease: -5},
		{Key: []byte("/b"), ModRevision: 1},
		{},
	}},
}

// TestReadRange holds readRange against the generated decoder, with answers that are whole and with each beginning of them.
func TestReadRange(t *testing.T) {
	for _, want := range rangeAnswers {
		whole, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(whole) + 1 {
			compareRange(t, whole[:n])
		}
	}
}

func FuzzReadRange(f *testing.F) {
	for _, answer := range rangeAnswers {
		b, err := proto.Marshal(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { _ = readRange(new(pb.RangeResponse), b) })
}

func compareRange(t *testing.T, b []byte) {
	t.Helper()
	var got, want pb.RangeResponse
	gotErr, wantErr := readRange(&got, b), proto.Unmarshal(b, &want)
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%x: %v, the generated decoder: %v", b, gotErr, wantErr)
	}
	if gotErr != nil {
		return
	}
	want.Header = &pb.ResponseHeader{Revision: want.GetHeader().GetRevision()} // nothing else of it is read
	if !proto.Equal(&got, &want) {
		t.Fatalf("%x:\n%v, the generated decoder:\n%v", b, &got, &want)
	}
}
