package jsonscan

// Member is one key with its value in an object. Offsets count from the start of the object's slice.
type Member struct {
	Key        []byte // between the quotes, as written
	KeyStart   int    // the quote before the key
	Start, End int    // the value
}

// Next returns the member that begins at or behind b[i], which must be just behind the object's '{' or at the end of
// the previous member. It reports false at the closing brace and for malformed input.
func Next(b []byte, i int) (m Member, ok bool) {
	s := scanner{b: b}
	if i = s.space(i); i < len(b) && b[i] == ',' {
		i = s.space(i + 1)
	}
	if i >= len(b) || b[i] != '"' {
		return m, false
	}
	m.KeyStart = i
	end := s.str(i)
	if end < 0 {
		return m, false
	}
	m.Key = b[i+1 : end-1]
	if i = s.space(end); i >= len(b) || b[i] != ':' {
		return m, false
	}
	m.Start = s.space(i + 1)
	m.End = s.value(m.Start, 0)
	return m, m.End >= 0
}

// Find returns the first member of the object that begins at b[i] (its '{') with that key.
func Find(b []byte, i int, key string) (m Member, ok bool) {
	if i < 0 || i >= len(b) || b[i] != '{' {
		return m, false
	}
	for i++; ; i = m.End {
		if m, ok = Next(b, i); !ok {
			return Member{}, false
		}
		if string(m.Key) == key {
			return m, true
		}
	}
}
