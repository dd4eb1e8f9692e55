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
		c.config.Logger.Error("the API server cannot read the authorization configuration; the one before stays in force until the file can be read", "error", err)
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
		c.config.Logger.Error("the API server cannot use the changed authorization configuration; the one before stays in force until the file is mended", "error", err)
		return
	}
	c.config.Logger.Info("the API server has taken over the changed authorization configuration", "file", c.config.File)
}
