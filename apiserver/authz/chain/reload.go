package chain

import (
	"bytes"
	"context"
	"os"
	"time"
)

// lookEvery is the time between two looks at the configuration file.
const lookEvery = 5 * time.Second

// reload looks at the configuration file again and again.
func (c *Chain) reload(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.Look()
		}
	}
}

// Look reads the configuration file and decides by it from now on, if it has changed. One that cannot be used changes nothing.
func (c *Chain) Look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, err := os.ReadFile(c.config.File)
	if err != nil {
		c.config.Logger.Error("cannot read the authorization configuration; the last one stays in force", "error", err)
		return
	}
	if bytes.Equal(data, c.seen) {
		return
	}
	c.seen = data
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
