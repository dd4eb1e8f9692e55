package chain

import (
	"bytes"
	"context"
	"os"
	"time"
)

// lookEvery is the time between two looks at the configuration file.
const lookEvery = 5 * time.Second

// reload uses the configuration file anew when it has changed. One that cannot be used changes nothing.
func (c *Chain) reload(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for last := c.started; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		data, err := os.ReadFile(c.config.File)
		if err != nil {
			c.config.Logger.Error("cannot read the authorization configuration; the last one stays in force", "error", err)
			continue
		}
		if bytes.Equal(data, last) {
			continue
		}
		last = data
		c.apply(data)
	}
}

// apply puts a changed configuration into force.
func (c *Chain) apply(data []byte) {
	rows, err := c.config.parse(data)
	if err == nil {
		err = c.use(rows)
	}
	if err != nil {
		c.config.Logger.Error("cannot use the changed authorization configuration; the last one stays in force", "error", err)
		return
	}
	c.config.Logger.Info("the authorization configuration has changed", "file", c.config.File)
}
