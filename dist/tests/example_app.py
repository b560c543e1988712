"""An application to be tested: orders of customers."""


def create(session):
    session.execute("CREATE TABLE orders (customer text, number int, items map<text, int>, PRIMARY KEY (customer, number))")


def place(session, customer, number, items):
    """Places an order; False if there is one with this number."""
    query = "INSERT INTO orders (customer, number, items) VALUES (%s, %s, %s) IF NOT EXISTS"
    return session.execute(query, (customer, number, items)).one().applied


def total(session, customer):
    rows = session.execute("SELECT items FROM orders WHERE customer = %s", (customer,))
    return sum(sum(items.values()) for (items,) in rows)
