package store

import "context"

// Compactor is one server's part in the compaction, without its clock.
type Compactor struct{ c compactor }

func NewCompactor(s *Store) *Compactor { return &Compactor{compactor{engine: s.engine}} }

func (c *Compactor) Tick(ctx context.Context) (int64, error) { return c.c.tick(ctx) }
