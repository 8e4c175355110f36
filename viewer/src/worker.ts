// The program of the decoding workers; build.mjs puts it into the page as text.
import { serve } from "./data/workers";

serve(self as unknown as Parameters<typeof serve>[0]);
