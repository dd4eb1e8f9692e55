package managed

// paths is a set of paths as a tree. Finding a key below a node costs the same whatever their number, so that an object with tens of
// thousands of fields costs what its size says and no more. The zero value needs a reset.
type paths struct {
	nodes []step  // the first is the root
	open  []int32 // the nodes of the path that was added last
	large map[int32]map[string]int32
}

// step is a node of the tree: what is reached by a key.
type step struct {
	key               string // quoted
	ends              bool   // a path ends here
	kids              int32
	first, last, next int32 // children, and the next child of the same parent; 0 is none
}

// fewSteps is the most children that are searched one after another.
const fewSteps = 8

func (p *paths) reset() {
	p.nodes, p.open, p.large = append(p.nodes[:0], step{}), p.open[:0], nil
}

func (p *paths) empty() bool { return len(p.nodes) == 1 }

// add adds a path, which comes in the order of a set: what has the same beginning comes together.
func (p *paths) add(path []string) {
	common := 0
	for common < len(p.open) && common < len(path) && p.nodes[p.open[common]].key == path[common] {
		common++
	}
	p.open = p.open[:common]
	at := int32(0)
	if common > 0 {
		at = p.open[common-1]
	}
	for _, key := range path[common:] {
		kid := int32(len(p.nodes))
		p.nodes = append(p.nodes, step{key: key})
		parent := &p.nodes[at]
		if parent.first == 0 {
			parent.first = kid
		} else {
			p.nodes[parent.last].next = kid
		}
		parent.last = kid
		parent.kids++
		p.open = append(p.open, kid)
		at = kid
	}
	p.nodes[at].ends = true
}

// child returns the node behind a key, 0 if there is none.
func (p *paths) child(at int32, key []byte) int32 {
	n := &p.nodes[at]
	if n.kids > fewSteps {
		return p.children(at)[string(key)]
	}
	for kid := n.first; kid != 0; kid = p.nodes[kid].next {
		if p.nodes[kid].key == string(key) {
			return kid
		}
	}
	return 0
}

// children returns the nodes behind the keys of a node with many.
func (p *paths) children(at int32) map[string]int32 {
	kids := p.large[at]
	if kids != nil {
		return kids
	}
	kids = make(map[string]int32, p.nodes[at].kids)
	for kid := p.nodes[at].first; kid != 0; kid = p.nodes[kid].next {
		kids[p.nodes[kid].key] = kid
	}
	if p.large == nil {
		p.large = map[int32]map[string]int32{}
	}
	p.large[at] = kids
	return kids
}

// members returns how many of the paths are members of a set.
func (p *paths) members(set []byte) int { return p.membersBelow(0, set) }

// membersBelow is members for what is below a node and in an object of the set.
func (p *paths) membersBelow(at int32, object []byte) int {
	n := &p.nodes[at]
	if len(object) == len("{}") {
		if n.ends {
			return 1
		}
		return 0
	}
	found, wanted := 0, n.kids
	if n.ends {
		wanted++
	}
	for key, inner := range inside(object) {
		if wanted == 0 {
			break
		}
		if string(key) == `"."` {
			if n.ends {
				found++
				wanted--
			}
		} else if kid := p.child(at, key); kid != 0 {
			found += p.membersBelow(kid, inner)
			wanted--
		}
	}
	return found
}

// lost is sets of paths that are to be taken out of a set.
type lost [2]*paths

// from appends a set without the paths. It returns nil when nothing remains.
func (l lost) from(dst, set []byte) []byte { return l.below(dst, set, [2]int32{}, false) }

// nowhere stands for a node when the way has left a tree.
const nowhere = -1

// below is from for an object of the set and the nodes that lead there. inside says that it is not the whole set.
func (l lost) below(dst, object []byte, at [2]int32, isInside bool) []byte {
	ends := false
	for i, p := range l {
		ends = ends || at[i] != nowhere && p.nodes[at[i]].ends
	}
	member := isInside && len(object) == len("{}") && !ends
	begin := len(dst)
	dst = append(dst, '{')
	children := false
	for key, inner := range inside(object) {
		dot := string(key) == `"."`
		if dot && ends {
			continue
		}
		before := len(dst)
		if len(dst) > begin+1 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, key...), ':')
		if dot {
			member = true
			dst = append(dst, inner...)
			continue
		}
		kids, on := [2]int32{nowhere, nowhere}, false
		for i, p := range l {
			if at[i] == nowhere {
				continue
			}
			if kid := p.child(at[i], key); kid != 0 {
				kids[i], on = kid, true
			}
		}
		if !on {
			children = true
			dst = append(dst, inner...)
			continue
		}
		if rest := l.below(dst, inner, kids, true); rest != nil {
			children = true
			dst = rest
		} else {
			dst = dst[:before]
		}
	}
	switch {
	case !member && !children:
		return nil
	case !children:
		dst = append(dst[:begin], '{')
	}
	return append(dst, '}')
}
