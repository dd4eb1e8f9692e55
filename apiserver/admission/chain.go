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
}

// New makes a chain. reg may be nil.
func New(plugins []Plugin, reg prometheus.Registerer) *Chain {
	return &Chain{plugins: plugins, metrics: newMetrics(reg)}
}

// Names lists the plug-ins in their order.
func (c *Chain) Names() []string {
	var names []string
	for _, p := range c.plugins {
		names = append(names, p.Name())
	}
	return names
}

// Plan is what the operations on one kind have to pass. It never changes.
type Plan struct {
	steps map[stepsKey]*Steps
}

type stepsKey struct {
	subresource string
	operation   Operation
}

// Plan asks the plug-ins what they want to see of a kind.
func (c *Chain) Plan(k *kinds.Kind) *Plan {
	p := &Plan{steps: map[stepsKey]*Steps{}}
	add := func(subresource string, op Operation) {
		if s := c.resolve(k, subresource, op); s != nil {
			p.steps[stepsKey{subresource, op}] = s
		}
	}
	for _, op := range writes {
		add("", op)
		for i := range k.Subresources {
			add(k.Subresources[i].Name, op)
		}
	}
	for name := range k.Connections {
		add(name, Connect)
	}
	return p
}

// For returns what an operation on the kind, or on a subresource of it when that is not "", has to pass; nil when that is nothing. A nil plan
// has nothing.
func (p *Plan) For(subresource string, op Operation) *Steps {
	if p == nil {
		return nil
	}
	return p.steps[stepsKey{subresource, op}]
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
