package bounds

import "vigil/kinds/validate"

// Fields checks unstructured content of the plan's type.
func (p *Plan) Fields(content map[string]any) error {
	if p.root == nil {
		return nil
	}
	return p.root.field(content, 1)
}

// field checks a value. depth counts the objects around it, and itself.
func (n *node) field(value any, depth int) error {
	switch v := value.(type) {
	case string:
		if n.kind == quantity {
			return validate.QuantityText(v)
		}
	case []any:
		if n.elem == nil || n.kind == dictionary {
			return nil
		}
		for _, e := range v {
			if err := n.elem.field(e, depth); err != nil {
				return err
			}
		}
	case map[string]any:
		return n.members(v, depth)
	}
	return nil
}

func (n *node) members(object map[string]any, depth int) error {
	switch n.kind {
	case structure:
		if depth > maxMessages {
			return errTooDeep
		}
		for name, value := range object {
			if child := n.byName[name]; child != nil {
				if err := child.field(value, depth+1); err != nil {
					return err
				}
			}
		}
	case dictionary:
		for _, value := range object {
			if err := n.elem.field(value, depth); err != nil {
				return err
			}
		}
	case choice:
		return n.elem.field(object, depth)
	}
	return nil
}
