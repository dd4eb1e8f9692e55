package harness

import (
	"bytes"
	"sync"
)

// Screen keeps what processes write, for others to look at meanwhile.
type Screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the text.
func (s *Screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

// String returns the text so far.
func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
