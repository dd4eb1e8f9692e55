package framework

// CycleState keeps what plug-ins know of one pod from one point of its cycle to the next. One goroutine uses it at a time.
type CycleState struct {
	values map[string]any
}

// Write keeps a value under a plug-in's name.
func (s *CycleState) Write(plugin string, value any) {
	if s.values == nil {
		s.values = map[string]any{}
	}
	s.values[plugin] = value
}

// Read returns what the plug-in of this name has kept; the zero value for nothing.
func Read[T any](s *CycleState, plugin string) T {
	value, _ := s.values[plugin].(T)
	return value
}
