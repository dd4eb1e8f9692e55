package admission

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/kinds"
)

// Plugin is a [Mutator], a [Validator] or both.
type Plugin interface {
	// Name is upstream's, as in --enable-admission-plugins.
	Name() string
	// Handles says whether the plug-in wants to see an operation on a resource, or on a subresource of it when that is not "".
	// The answer never changes.
	Handles(k *kinds.Kind, subresource string, op Operation) bool
}

// Mutator completes objects, or refuses what needs no completed object to be refused.
type Mutator interface {
	Plugin
	// Admit may change a.Object. Its error is an APIStatus, or becomes an internal error.
	Admit(ctx context.Context, a *Attributes) error
}

// Validator refuses objects.
type Validator interface {
	Plugin
	// Validate changes nothing. Its error is an APIStatus, or becomes an internal error.
	Validate(ctx context.Context, a *Attributes) error
}

// Chain is a list of plug-ins, in their order.
type Chain struct {
	plugins []Plugin
	metrics *metrics
	steps   map[stepsKey]*Steps
}

type stepsKey struct {
	kind        *kinds.Kind
	subresource string
	operation   Operation
}

// New makes a chain for the kinds of a table. reg may be nil.
func New(table *kinds.Table, plugins []Plugin, reg prometheus.Registerer) *Chain {
	c := &Chain{plugins: plugins, metrics: newMetrics(reg), steps: map[stepsKey]*Steps{}}
	for _, k := range table.All() {
		for _, op := range operations {
			c.steps[stepsKey{k, "", op}] = c.resolve(k, "", op)
			for i := range k.Subresources {
				name := k.Subresources[i].Name
				c.steps[stepsKey{k, name, op}] = c.resolve(k, name, op)
			}
		}
	}
	return c
}

// Names lists the plug-ins in their order.
func (c *Chain) Names() []string {
	var names []string
	for _, p := range c.plugins {
		names = append(names, p.Name())
	}
	return names
}

// For returns what an operation has to pass, nil when that is nothing. A nil chain has nothing.
func (c *Chain) For(k *kinds.Kind, subresource string, op Operation) *Steps {
	if c == nil {
		return nil
	}
	steps, ok := c.steps[stepsKey{k, subresource, op}]
	if !ok {
		steps = c.resolve(k, subresource, op)
	}
	return steps
}

func (c *Chain) resolve(k *kinds.Kind, subresource string, op Operation) *Steps {
	s := &Steps{}
	for _, p := range c.plugins {
		if !p.Handles(k, subresource, op) {
			continue
		}
		if m, ok := p.(Mutator); ok {
			s.mutate.add(c.metrics, p, "admit", op, m.Admit)
		}
		if v, ok := p.(Validator); ok {
			s.validate.add(c.metrics, p, "validate", op, v.Validate)
		}
	}
	if len(s.mutate.calls)+len(s.validate.calls) == 0 {
		return nil
	}
	return s
}

// Steps are the plug-ins that one operation on one resource has to pass.
type Steps struct {
	mutate, validate phase
}

// Mutate lets the mutators complete a.Object. It stops at the first error.
func (s *Steps) Mutate(ctx context.Context, a *Attributes) error { return s.mutate.run(ctx, a) }

// Validate asks the validators. It stops at the first error.
func (s *Steps) Validate(ctx context.Context, a *Attributes) error { return s.validate.run(ctx, a) }

// phase is one of the two passes over an object.
type phase struct {
	calls  []stepCall
	timing timing // of all calls together
}

type stepCall struct {
	do     func(context.Context, *Attributes) error
	timing timing
}

func (p *phase) add(m *metrics, plugin Plugin, typ string, op Operation, do func(context.Context, *Attributes) error) {
	p.timing = m.step(typ, op)
	p.calls = append(p.calls, stepCall{do: do, timing: m.plugin(plugin.Name(), typ, op)})
}

func (p *phase) run(ctx context.Context, a *Attributes) error {
	if len(p.calls) == 0 {
		return nil
	}
	began := time.Now()
	last := began
	for i := range p.calls {
		call := &p.calls[i]
		err := call.do(ctx, a)
		now := time.Now()
		call.timing.observe(now.Sub(last), err)
		if last = now; err != nil {
			p.timing.observe(last.Sub(began), err)
			return err
		}
	}
	p.timing.observe(last.Sub(began), nil)
	return nil
}
