package admission

import (
	"context"
	"sync"
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

// Dynamic is a [Plugin] whose wishes change while it runs, as those of webhooks and policies do with their configuration. Of what it handles, it
// sees what it wants when the operation comes.
type Dynamic interface {
	Plugin
	// Wants is asked on each operation that the plug-in handles, for mutation and validation together. It must be cheap, and is called from many
	// goroutines.
	Wants(k *kinds.Kind, subresource string, op Operation) bool
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

	mu   sync.Mutex
	made map[selection]*Steps // kinds that the same plug-ins want to see share their steps
}

// selection is some plug-ins of a chain for an operation: bit n stands for the n-th.
type selection struct {
	plugins   uint64
	operation Operation
}

// New makes a chain of at most 64 plug-ins. reg may be nil.
func New(plugins []Plugin, reg prometheus.Registerer) *Chain {
	return &Chain{plugins: plugins, metrics: newMetrics(reg), made: map[selection]*Steps{}}
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
	kind  *kinds.Kind
	steps map[stepsKey]*resolved
}

// resolved is what one operation has to pass for each choice that the plug-ins make when it comes.
type resolved struct {
	dynamic []Dynamic
	by      []*Steps // by the set of those of dynamic that want it: bit n stands for the n-th
}

type stepsKey struct {
	subresource string
	operation   Operation
}

// Plan asks the plug-ins what they want to see of a kind.
func (c *Chain) Plan(k *kinds.Kind) *Plan {
	p := &Plan{kind: k, steps: map[stepsKey]*resolved{}}
	add := func(subresource string, op Operation) {
		if r := c.resolve(k, subresource, op); r != nil {
			p.steps[stepsKey{subresource, op}] = r
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
	r := p.steps[stepsKey{subresource, op}]
	if r == nil {
		return nil
	}
	wanted := 0
	for n, d := range r.dynamic {
		if d.Wants(p.kind, subresource, op) {
			wanted |= 1 << n
		}
	}
	return r.by[wanted]
}

// resolve asks who handles an operation; nil when nobody does.
func (c *Chain) resolve(k *kinds.Kind, subresource string, op Operation) *resolved {
	r := &resolved{}
	always := selection{operation: op}
	var sometimes []uint64
	for n, p := range c.plugins {
		if !p.Handles(k, subresource, op) {
			continue
		}
		if d, ok := p.(Dynamic); ok {
			r.dynamic = append(r.dynamic, d)
			sometimes = append(sometimes, 1<<n)
		} else {
			always.plugins |= 1 << n
		}
	}
	if always.plugins == 0 && len(r.dynamic) == 0 {
		return nil
	}
	r.by = make([]*Steps, 1<<len(r.dynamic))
	for wanted := range r.by {
		of := always
		for n, bit := range sometimes {
			if wanted&(1<<n) != 0 {
				of.plugins |= bit
			}
		}
		r.by[wanted] = c.steps(of)
	}
	return r
}

// steps puts plug-ins in their order. It returns nil when there are none.
func (c *Chain) steps(of selection) *Steps {
	if of.plugins == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.made[of]; s != nil {
		return s
	}
	s := &Steps{}
	op := of.operation
	for n, p := range c.plugins {
		if of.plugins&(1<<n) == 0 {
			continue
		}
		if m, ok := p.(Mutator); ok {
			s.mutate.add(c.metrics, p, "admit", op, m.Admit)
		}
		if v, ok := p.(Validator); ok {
			s.validate.add(c.metrics, p, "validate", op, v.Validate)
		}
	}
	c.made[of] = s
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
