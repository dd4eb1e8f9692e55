package flowcontrol

const (
	objectsPerSeat = 100 // of a list, as upstream's
	maxSeats       = 10  // of any request
)

// ListSeats is how much of the server a list takes that goes through so many objects.
func ListSeats(objects int) uint64 {
	return uint64(max(1, (objects+objectsPerSeat-1)/objectsPerSeat))
}

// bounded is what a level lets a single request take.
func (c *Controller) bounded(seats uint64, level string) uint64 {
	limit := c.engine.GetMaxSeats(level)
	if limit == 0 || limit > maxSeats {
		limit = maxSeats
	}
	return max(1, min(seats, limit))
}
